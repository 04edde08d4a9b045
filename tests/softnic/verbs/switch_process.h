// `sidelatch switch` as a process, for software NICs of other processes.
//
//   SwitchProcess device("p4/l2_l3.p4", "p4/l2_l3.json", {"--loss", "0.01"});   // returns when it is up
//   site.set_for("server", "SIDELATCH_SOFTNIC_WIRE=switch:" + device.cable(1) + ",10.0.0.1");
//   const nlohmann::json statistics = device.stop();
//
// It has the ports 1 and 2, cables with names of their own. Its destructor ends it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <sys/types.h>

#include <string>
#include <vector>

namespace sidelatch::softnic {

class SwitchProcess {
 public:
  /// Files: in the source tree, or absolute. Throws std::runtime_error with what it printed if it ends early.
  SwitchProcess(const std::string& program, const std::string& control, const std::vector<std::string>& more = {});
  SwitchProcess(const SwitchProcess&) = delete;
  SwitchProcess& operator=(const SwitchProcess&) = delete;
  ~SwitchProcess();

  [[nodiscard]] std::string cable(int port) const;
  /// Ends it and returns its statistics. Throws std::runtime_error if its exit status is not 0.
  [[nodiscard]] nlohmann::json stop();

 private:
  std::string name_;
  std::string files_;  // the beginning of their names
  pid_t process_ = 0;
};

}  // namespace sidelatch::softnic
