#include "parallel_tbb.h"

#include <tbb/parallel_for.h>

namespace sidelatch::checker {

void tbb_for(std::size_t count, TbbJob job, void* context) {
  tbb::parallel_for(std::size_t{0}, count, [job, context](std::size_t i) { job(context, i); });
}

}  // namespace sidelatch::checker
