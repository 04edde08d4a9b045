#include "shares.h"

#include <vector>

namespace sidelatch::checker {

std::size_t run_in_shares(std::size_t jobs, const std::function<Seconds()>& left,
                          const std::function<bool(std::size_t job, Seconds budget)>& run) {
  struct Cut {
    std::size_t job;
    Seconds budget;
  };
  const auto share = [&left](std::size_t of) { return left() / static_cast<double>(of); };
  std::vector<Cut> cut;
  for (std::size_t job = 0; job < jobs; ++job) {
    const Seconds budget = share(jobs - job);
    if (!run(job, budget)) {
      cut.push_back({job, budget});
    }
  }
  std::size_t not_ended = 0;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const Seconds budget = share(cut.size() - i);
    const bool ended = budget > cut[i].budget && run(cut[i].job, budget);
    not_ended += ended ? 0 : 1;
  }
  return not_ended;
}

}  // namespace sidelatch::checker
