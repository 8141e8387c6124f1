// Root takes on the rights of a process's user before it reads what the process wrote. `--stop` then still needs the right to
// trace the process, which the kernel may refuse to that user (Yama, a process that forbids inspection).
//
//     TracingRights rights(true);     as root, before BecomeUserOf: keeps what is permitted
//     rights.Use();                   only CAP_SYS_PTRACE, as the other user
//     rights.GiveUp();                nothing; before anything of the process is analyzed
#ifndef HOLDFAST_REPORT_SHOW_TRACING_RIGHTS_H_
#define HOLDFAST_REPORT_SHOW_TRACING_RIGHTS_H_

namespace holdfast {

class TracingRights {
 public:
  // Without `wanted`, or without root's rights, this does nothing.
  explicit TracingRights(bool wanted);
  ~TracingRights() { GiveUp(); }
  TracingRights(const TracingRights&) = delete;
  TracingRights& operator=(const TracingRights&) = delete;

  void Use() const;
  void GiveUp() const;

 private:
  const bool has_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_TRACING_RIGHTS_H_
