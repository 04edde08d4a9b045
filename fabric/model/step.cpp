#include <sidelatch/fabric/model/step.h>

#include <fmt/format.h>

namespace sidelatch::fabric::model {

std::string_view name(StepKind kind) {
  switch (kind) {
    case StepKind::fetch:
      return "fetch";
    case StepKind::place:
      return "place";
    case StepKind::sample:
      return "sample";
    case StepKind::load:
      return "load";
    case StepKind::store:
      return "store";
    case StepKind::load_store:
      return "load_store";
    case StepKind::execute:
      return "execute";
    case StepKind::deliver:
      return "deliver";
    case StepKind::complete:
      return "complete";
    case StepKind::receive:
      return "receive";
    case StepKind::drain:
      return "drain";
  }
  return "unknown step";
}

std::string to_string(const Step& step) {
  switch (step.kind) {
    case StepKind::drain:
      return fmt::format("drain thread{} store {}", step.owner, step.index);
    case StepKind::fetch:
    case StepKind::place:
    case StepKind::sample:
      return fmt::format("{} qp{}[{}] piece {}", name(step.kind), step.owner, step.index, step.piece);
    default:
      return fmt::format("{} qp{}[{}]", name(step.kind), step.owner, step.index);
  }
}

}  // namespace sidelatch::fabric::model
