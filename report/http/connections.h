// The open connections of a server. A thread closes those that exceed their time limit, and handlers wait through this
// class.
//
// libmicrohttpd's own time limit restarts with each byte: a client that sends one every few seconds could keep a
// connection open for hours.
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
    Clock::time_point until;  // deadline for the client's next step; max(): the client waits for us
    std::list<Connection>::iterator place;
  };

  Connections();
  ~Connections();  // all connections are closed by now

  Connection* Add(int socket);
  void Remove(Connection* connection);
  // Gives the client `time` from now on. Zero: unlimited, because the client waits for us.
  void Allow(Connection* connection, Clock::duration time);
  // See HttpRequest::wait.
  WaitEnd Wait(const Connection& connection, std::chrono::seconds time);
  void Stop();  // ends every Wait

 private:
  void Watch();
  WaitEnd WaitUntil(int socket, Clock::time_point until) const;

  // Guards what follows. A socket is shut down only with this mutex held, so that its number is still its own.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Connection> open_;
  unsigned waiting_ = 0;
  bool stopped_ = false;
  FileDescriptor stop_event_;
  std::thread watcher_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_CONNECTIONS_H_
