// node load.mjs SOCKET FILE CLIENTS: sends FILE over each of CLIENTS connections to a memcached, and waits until it is done.
import { createReadStream } from "node:fs";
import { connect } from "node:net";

const [socket, file, clients] = process.argv.slice(2);
const client = (first) =>
  new Promise((done, failed) => {
    const connection = connect(socket);
    connection.on("error", failed);
    connection.on("data", (data) => {
      if (String(data).includes("VERSION")) connection.end(done);
    });
    if (first) connection.write("set hot 0 0 1 noreply\r\n0\r\n");
    const requests = createReadStream(file);
    requests.pipe(connection, { end: false });
    requests.on("end", () => connection.write("version\r\n"));
  });
await Promise.all(Array.from({ length: Number(clients) }, (_, i) => client(i === 0)));
