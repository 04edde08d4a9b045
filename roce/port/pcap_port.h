// PcapPort: a port whose frames come from one capture file and leave to another. Either may be missing.
//
// Thread-safety: as Wire.
#pragma once

#include "pcap_reader.h"

#include "roce/wire/pcap_file.h"
#include "roce/wire/wire.h"

#include <filesystem>
#include <optional>
#include <vector>

namespace sidelatch::roce {

struct PcapPortOptions {
  std::filesystem::path in;   ///< empty: no frame arrives
  std::filesystem::path out;  ///< empty: what leaves is lost; an old file is replaced
};

class PcapPort final : public Wire {
 public:
  /// Throws as PcapReader and PcapFile.
  explicit PcapPort(const PcapPortOptions& options);

  /// When the next frame arrived, since 1970; nothing: there is none any more.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next_time() const noexcept;
  /// The time of frames that leave from now on.
  void set_time(std::chrono::nanoseconds since_1970) noexcept { time_ = since_1970; }

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return none_; }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& /*gid*/) override { return std::nullopt; }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override {}
  [[nodiscard]] std::span<const std::byte> receive() override;
  /// Returns at once.
  void wait(std::chrono::nanoseconds /*at_most*/) override {}
  void interrupt() noexcept override {}
  void abandon() noexcept override {}
  [[nodiscard]] std::chrono::nanoseconds lie_down() override;
  [[nodiscard]] const WireCounters& counters() const noexcept override { return counters_; }

 private:
  StationAddresses none_;
  std::optional<PcapReader> in_;
  std::optional<PcapFile> out_;
  std::optional<PcapReader::Frame> next_;
  std::vector<std::byte> current_;
  std::vector<std::byte> room_;
  std::chrono::nanoseconds time_{};
  WireCounters counters_;
};

}  // namespace sidelatch::roce
