"""OTLP's profiles (opentelemetry.proto.profiles.v1development) as a stranger reads them, and as the profiling SIG's profcheck checks
them, with its options -check-dupes and -check-orphans. Shares no code with what writes them.

    for family, attributes, profile, profile_id in checked(body): profile.sum("inuse_space", leaf="main")
"""
from pprof_reader import fields, grouped, numbers, signed

# Our labels by the names of the conventions.
LABELS = {
    "service.name": "service_name",
    "process.executable.name": "program",
    "host.name": "host",
    "process.pid": "pid",
    "service.version": "version",
    "process.executable.build_id.gnu": "build_id",
    "container.id": "container",
    "k8s.pod.name": "pod",
    "k8s.namespace.name": "namespace",
    "k8s.node.name": "node",
}
TABLES = {1: "mapping", 2: "location", 3: "function", 4: "link", 5: "string", 6: "attribute", 7: "stack"}


class Wrong(Exception):
    pass


def need(condition, *what):
    if not condition:
        raise Wrong(*what)


def last(message, number, default=0):
    return message.get(number, [default])[-1]


class Dictionary:
    def __init__(self, data):
        self.tables = {name: [] for name in TABLES.values()}
        for number, value in fields(data):
            self.tables[TABLES[number]].append(value)
        for name, table in self.tables.items():
            need(table, "%s table: no entry" % name)
            # A Collector writes fields that hold nothing, and may write ids of zeros.
            empty = all(value == 0 if isinstance(value, int) else not any(value) for _, value in (fields(table[0]) if name != "string" else ()))
            need(empty and (name != "string" or not table[0]), "%s table: its first entry is not empty" % name)
            need(len(set(table)) == len(table), "%s table: an entry stands twice" % name)
        self.strings = [text.decode("utf-8") for text in self.tables["string"]]
        self.used = {name: {0} for name in self.tables}
        self.mappings = [self.mapping(grouped(data)) for data in self.tables["mapping"]]
        self.functions = [self.function(grouped(data)) for data in self.tables["function"]]
        self.locations = [self.location(grouped(data)) for data in self.tables["location"]]
        self.stacks = [self.indices(grouped(data), 1, "location") for data in self.tables["stack"]]
        self.attributes = [self.attribute(grouped(data)) for data in self.tables["attribute"]]

    def index(self, name, index):
        need(0 <= index < len(self.tables[name]), "%s table: no entry %d" % (name, index))
        self.used[name].add(index)
        return index

    def indices(self, message, number, name):
        return [self.index(name, signed(one)) for one in numbers(message.get(number, []))]

    def string(self, message, number):
        return self.strings[self.index("string", last(message, number))]

    def attribute(self, message):
        value = grouped(last(message, 2, b""))
        return self.string(message, 1), last(value, 1, b"").decode() if 1 in value else last(value, 3)

    def attributes_of(self, message, number):
        found = [self.attributes[index] for index in self.indices(message, number, "attribute")]
        need(len({key for key, _ in found}) == len(found), "a key of attributes stands twice")
        return dict(found)

    def mapping(self, message):
        start, limit = last(message, 1), last(message, 2)
        need(start < limit or start == limit == 0, "a mapping of no length")
        self.indices(message, 5, "attribute")
        return self.string(message, 4)

    def function(self, message):
        need(signed(last(message, 4)) >= 0, "a negative line")
        return self.string(message, 1), self.string(message, 2), self.string(message, 3)

    def location(self, message):
        self.index("mapping", last(message, 1))
        names = []
        for line in message.get(3, []):
            line = grouped(line)
            need(signed(last(line, 2)) >= 0 and signed(last(line, 3)) >= 0, "a negative line")
            names.append(self.functions[self.index("function", last(line, 1))][0])
        return last(message, 2), names

    def check_orphans(self):
        for name, table in self.tables.items():
            need(self.used[name] == set(range(len(table))), "%s table: an entry that nothing names" % name)


class Sample:
    def __init__(self, stack, addresses, value, labels):
        self.stack, self.addresses, self.values, self.labels = stack, addresses, [value], labels


class OtlpProfile:
    """One type of values; in as far as tests ask, as pprof_reader.Profile."""

    def __init__(self, message, dictionary):
        kind = grouped(last(message, 1, b""))
        period = grouped(last(message, 5, b""))
        self.types = ["%s/%s" % (dictionary.string(kind, 1), dictionary.string(kind, 2))]
        self.period_type = "%s/%s" % (dictionary.string(period, 1), dictionary.string(period, 2))
        self.period = last(message, 6)
        self.start_nanos, self.duration_nanos = last(message, 3), last(message, 4)
        self.time_nanos = self.start_nanos + self.duration_nanos
        dictionary.indices(message, 11, "attribute")
        self.samples = []
        for data in message.get(2, []):
            sample = grouped(data)
            values = [signed(value) for value in numbers(sample.get(4, []))]
            need(len(values) == 1 and 5 not in sample, "a sample has one value and no times")
            dictionary.index("link", last(sample, 3))
            addresses, stack = [], []
            for location in dictionary.stacks[dictionary.index("stack", last(sample, 1))]:
                addresses.append(dictionary.locations[location][0])
                stack += dictionary.locations[location][1]
            self.samples.append(Sample(stack, addresses, values[0], dictionary.attributes_of(sample, 2)))

    def sum(self, name, leaf=None, having=None):
        if self.types[0].split("/")[0] != name:
            return 0
        return sum(
            sample.values[0]
            for sample in self.samples
            if (leaf is None or sample.stack[:1] == [leaf]) and (having is None or having in sample.stack)
        )


def checked(body, orphans=True):
    request = grouped(body)
    need(request.get(1), "no profiles of any resource")
    dictionary = Dictionary(last(request, 2, b""))
    found = []
    for resource_profiles in map(grouped, request[1]):
        attributes = {}
        for pair in grouped(last(resource_profiles, 1, b"")).get(1, []):
            pair = grouped(pair)
            value = grouped(last(pair, 2, b""))
            attributes[last(pair, 1, b"").decode()] = last(value, 1).decode() if 1 in value else last(value, 3)
        need(resource_profiles.get(2), "no profiles of any scope")
        for scope_profiles in map(grouped, resource_profiles[2]):
            need(scope_profiles.get(2), "a scope without profiles")
            for message in map(grouped, scope_profiles[2]):
                profile = OtlpProfile(message, dictionary)
                profile_id = last(message, 7, b"")
                need(len(profile_id) == 16 and any(profile_id), "an id of %d bytes" % len(profile_id))
                found.append((profile.period_type.split("/")[0], attributes, profile, profile_id))
    need(len({one[3] for one in found}) == len(found), "an id stands twice")
    if orphans:
        dictionary.check_orphans()
    return found
