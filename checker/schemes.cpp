#include <sidelatch/checker/schemes.h>

#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/two_read_version.h>

#include <array>

namespace sidelatch::checker {

namespace {

template <class T>
std::unique_ptr<sync::OptimisticScheme> make() {
  return std::make_unique<T>();
}

std::unique_ptr<sync::OptimisticScheme> make_naive() { return sync::make_specimen("broken/naive"); }

// A new scheme is one line here.
constexpr std::array kSchemes = {
    Scheme{"broken/naive", true, make_naive},
    Scheme{"optimistic/two-read", false, make<sync::TwoReadVersion>},
    Scheme{"optimistic/crc64", false, make<sync::Crc64>},
    Scheme{"optimistic/farm", false, make<sync::FarmLineVersions>},
};

}  // namespace

std::span<const Scheme> schemes() { return kSchemes; }

}  // namespace sidelatch::checker
