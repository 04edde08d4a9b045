#include "kv_store.h"

#include "experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace sidelatch::bench {

namespace {

constexpr std::array<std::pair<const char*, Mix>, StoreCurves::kMixes> kMixNames = {
    {{"write-only", kWriteOnly}, {"mixed", kMixed}, {"read-only", kReadOnly}}};
constexpr double kSkewed = 1;
constexpr double kContended = 1.5;

}  // namespace

StoreCurves::StoreCurves(const ExperimentOptions& options, const StoreScale& scale, std::uint64_t tuple_bytes,
                         std::vector<StoreLine> lines, std::vector<MixOf> mixes)
    : exponents_(scale.exponents), lines_(std::move(lines)), mixes_(std::move(mixes)) {
  std::vector<TableLoad> loads;
  for (const MixOf which : mixes_) {
    const Mix& mix = kMixNames.at(static_cast<std::size_t>(which)).second;
    for (const StoreLine& line : lines_) {
      for (const double exponent : exponents_) {
        TableLoad load{.make = line.make,
                       .layout = line.layout,
                       .tuple_bytes = tuple_bytes,
                       .tuples = scale.tuples,
                       .workers = scale.workers,
                       .mix = mix,
                       .exponent = exponent,
                       .practice = line.practice,
                       .measured = exponent < kSkewed ? scale.measured : scale.measured_skewed};
        if (exponent >= kContended && mix.update > 0) {
          load.measured = scale.measured_contended;
          load.warm_up = std::max(load.warm_up, load.measured / 5);
        }
        if (options.longest_wait) {
          load.retry =
              sync::Retry::backoff(std::min(sync::Retry{}.first, *options.longest_wait), *options.longest_wait);
        }
        loads.push_back(std::move(load));
      }
    }
  }
  results_ = run_table_loads(options, loads);
}

const checker::Estimate& StoreCurves::mops(MixOf mix, std::size_t line, double exponent) const {
  const auto found = std::ranges::find(exponents_, exponent);
  const auto mixed = std::ranges::find(mixes_, mix);
  if (found == exponents_.end() || line >= lines_.size() || mixed == mixes_.end()) {
    throw std::out_of_range(fmt::format("line {} was not measured with an exponent of {}, {}", line, exponent,
                                        kMixNames.at(static_cast<std::size_t>(mix)).first));
  }
  const std::size_t curve = static_cast<std::size_t>(mixed - mixes_.begin()) * lines_.size() + line;
  return results_.at(curve * exponents_.size() + static_cast<std::size_t>(found - exponents_.begin())).mops;
}

std::vector<Series> StoreCurves::series(const std::string& what) const {
  std::vector<Series> all;
  for (const MixOf mix : mixes_) {
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      Series series{
          .name = lines_[l].name, .unit = "Mops/s", .panel = kMixNames.at(static_cast<std::size_t>(mix)).first + what};
      for (const double exponent : exponents_) {
        series.points.push_back(point(exponent, mops(mix, l, exponent)));
      }
      all.push_back(std::move(series));
    }
  }
  return all;
}

}  // namespace sidelatch::bench
