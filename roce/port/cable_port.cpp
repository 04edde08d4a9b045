#include "ports.h"

#include "roce/wire/cable.h"

namespace sidelatch::roce {

namespace {

class CablePort final : public Wire {
 public:
  explicit CablePort(const CablePortOptions& options)
      : cable_(CableEnd::port, options.name, "switch", options.folder.string()) {
    cable_.wire().use_bell();
  }

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return none_; }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& /*gid*/) override { return std::nullopt; }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& /*destination*/, std::size_t bytes) override {
    return cable_.wire().reserve(cable_.other_end(), bytes);
  }
  void commit(std::size_t bytes) override { cable_.wire().commit(bytes); }
  void flush() override { cable_.wire().flush(); }
  [[nodiscard]] std::span<const std::byte> receive() override { return cable_.wire().receive(); }
  void wait(std::chrono::nanoseconds at_most) override { cable_.wire().wait(at_most); }
  void interrupt() noexcept override { cable_.wire().interrupt(); }
  [[nodiscard]] int descriptor() const noexcept override { return cable_.wire().descriptor(); }
  [[nodiscard]] std::chrono::nanoseconds lie_down() override { return cable_.wire().lie_down(); }
  void stand_up() override { cable_.wire().stand_up(); }
  void abandon() noexcept override { cable_.wire().abandon(); }
  [[nodiscard]] const WireCounters& counters() const noexcept override { return cable_.wire().counters(); }

 private:
  StationAddresses none_;
  Cable cable_;
};

}  // namespace

std::unique_ptr<Wire> open_cable_port(const CablePortOptions& options) { return std::make_unique<CablePort>(options); }

}  // namespace sidelatch::roce
