// The open connections of a server: a thread ends those that are over their time, and everybody waits through here.
//
// libmicrohttpd's own time limit starts again with each byte: a client that sends one every few seconds would keep a connection
// for hours.
#ifndef HOLDFAST_REPORT_HTTP_CONNECTIONS_H_
#define HOLDFAST_REPORT_HTTP_CONNECTIONS_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "report/base/file_descriptor.h"
#include "report/http/http_server.h"

namespace holdfast {

class HttpServer::Connections {
 public:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int socket = -1;
    Clock::time_point until;  // by when it must have got on; max(): it waits for us
    std::list<Connection>::iterator place;
  };

  Connections();
  ~Connections();  // all are closed by now

  Connection* Add(int socket);
  void Remove(Connection* connection);
  // It has `time` from now on. Zero: as long as it takes; the client waits for us.
  void Allow(Connection* connection, Clock::duration time);
  // See HttpRequest::wait.
  WaitEnd Wait(const Connection& connection, std::chrono::seconds time);
  void Stop();  // every Wait ends

 private:
  void Watch();
  WaitEnd WaitUntil(int socket, Clock::time_point until) const;

  std::mutex
      mutex_;  // guards what follows; a socket is only shut down with it held, so that its number is still its own
  std::condition_variable changed_;
  std::list<Connection> open_;
  unsigned waiting_ = 0;
  bool stopped_ = false;
  FileDescriptor stop_event_;
  std::thread watcher_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_CONNECTIONS_H_
