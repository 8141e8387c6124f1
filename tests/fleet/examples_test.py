"""examples/: what can be checked of them without a cluster, a Grafana or a systemd that runs."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from fleet import FleetTest, servers_path

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


def validator():
    environment = dict(os.environ, PYTHONPATH=servers_path("kubernetes"))
    return environment if os.path.isdir(servers_path("kubernetes")) else None


class Examples(FleetTest):
    @unittest.skipUnless(validator(), "kubernetes-validate is not here (scripts/servers kubernetes brings it)")
    def test_manifests_are_as_the_api_has_them(self):
        """By the newest schema, and by that of the oldest release that has sidecars; nothing unknown."""
        command = [sys.executable, "-m", "kubernetes_validate", "--strict", "--no-warn"]
        folder = os.path.join(EXAMPLES, "kubernetes")
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        for version in ([], ["-k", "1.29.0"]):
            said = subprocess.run([*command, *version, *files], capture_output=True, text=True, env=validator())
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        with open(files[0]) as file:
            broken = file.read().replace("mountPath", "mountpath")
        path = os.path.join(self.folder, "broken.yaml")
        with open(path, "w") as file:
            file.write(broken)
        self.assertNotEqual(subprocess.run([*command, path], capture_output=True, env=validator()).returncode, 0)

    def test_the_dashboard_asks_for_what_is_there(self):
        program = self.start()
        program.step()
        server = self.serve()
        answer = self.get(server, "/metrics").text
        there = {line.split()[2] for line in answer.splitlines() if line.startswith("# TYPE ")}
        with open(os.path.join(EXAMPLES, "grafana/dashboard.json")) as file:
            dashboard = json.load(file)
        asked = set()
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                asked |= set(re.findall(r"holdfast_\w+", target["expr"]))
                labels = set(re.findall(r"by \(([^)]*)\)", target["expr"])[0].split(", "))
                self.assertLessEqual(labels, {"program", "pid", "kind", "cause"})
        asked |= set(re.findall(r"holdfast_\w+", json.dumps(dashboard["templating"])))
        self.assertGreater(len(asked), 5)
        there.add("holdfast_lost_total")  # no line where nothing was lost
        self.assertEqual(asked - there, set())
        places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
        self.assertEqual(len(set(places)), len(places))

    def test_each_program_is_built_as_its_comment_says(self):
        built = 0
        for name in sorted(os.listdir(EXAMPLES)):
            if not name.endswith((".c", ".cc", ".rs")):
                continue
            with open(os.path.join(EXAMPLES, name)) as file:
                command, result = re.search(r"(?m)^//     ((?:c\+\+|cc|rustc) .*) -o (\w+)$", file.read()).groups()
            if shutil.which(command.split()[0]) is None:
                continue
            path = os.path.join(self.folder, result)
            ran = subprocess.run([*command.split(), "-o", path], cwd=os.path.dirname(EXAMPLES), capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), command)
            self.assertTrue(os.access(path, os.X_OK))
            built += 1
        self.assertGreaterEqual(built, 4)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_systemd_knows_every_setting(self):
        units = os.path.join(self.folder, "units")
        os.makedirs(units + "/shop.service.d")
        with open(units + "/shop.service", "w") as file:
            file.write("[Unit]\nDescription=A shop\n[Service]\nExecStart=/bin/true\n")
        shutil.copy(os.path.join(EXAMPLES, "systemd/profiled.conf"), units + "/shop.service.d/")

        def verify():
            # Elsewhere than in its own folders it looks for everything, also for the targets that are there by default.
            path = units + ":/usr/lib/systemd/system:/lib/systemd/system"
            said = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "shop.service"], capture_output=True, text=True, env=dict(os.environ, SYSTEMD_UNIT_PATH=path)
            )
            return [line for line in said.stderr.splitlines() if "shop.service" in line]

        self.assertEqual(verify(), [])
        with open(units + "/shop.service.d/profiled.conf", "a") as file:
            file.write("StateDirectoryMood=0700\n")
        self.assertTrue(any("StateDirectoryMood" in line for line in verify()))


if __name__ == "__main__":
    unittest.main()
