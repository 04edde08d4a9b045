// The Emitter: what a program tells of itself, and where its values lie.
#include "emitter.h"

namespace sidelatch::p4 {

namespace {

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      made += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') {
      made += '\\';
    }
    made += c;
  }
  return made + '"';
}

}  // namespace

std::string Emitter::arguments(const std::vector<U128>& values) {
  std::string text;
  for (const U128 one : values) {
    text += (text.empty() ? "" : ", ") + literal(one, true);
  }
  return "{" + text + "}";
}

void Emitter::info() {
  const ProgramInfo& info = program_.info;
  line("\nProgramInfo make_info() {\nProgramInfo info;");
  line(fmt::format("info.name = {};", quoted(info.name)));
  for (const TableInfo& table : info.tables) {
    line(fmt::format("{{ TableInfo t; t.name = {};", quoted(table.name)));
    for (const KeyInfo& key : table.keys) {
      line(fmt::format("t.keys.push_back({{{}, MatchKind({}), {}}});", quoted(key.name), static_cast<int>(key.kind),
                       key.width));
    }
    for (const ActionInfo& action : table.actions) {
      std::string parameters;
      for (const ParameterInfo& one : action.parameters) {
        parameters += fmt::format("{}{{{}, {}}}", parameters.empty() ? "" : ", ", quoted(one.name), one.width);
      }
      line(fmt::format("t.actions.push_back({{{}, {{{}}}, {}, {}}});", quoted(action.name), parameters,
                       action.only_default, action.only_entries));
    }
    for (const Entry& entry : table.entries) {
      std::string keys;
      for (const Match& match : entry.keys) {
        keys += fmt::format("{}{{{}, {}}}", keys.empty() ? "" : ", ", literal(match.value, true),
                            literal(match.mask, true));
      }
      line(fmt::format("t.entries.push_back({{{{{}}}, {}, {}, {}, {{}}}});", keys, entry.action,
                       arguments(entry.arguments), entry.priority));
    }
    line(
        fmt::format("t.default_action = {}; t.default_arguments = {}; t.constant_entries = {}; t.constant_default = "
                    "{}; t.size = {}; t.has_selector = {};",
                    table.default_action, arguments(table.default_arguments), table.constant_entries,
                    table.constant_default, table.size, table.has_selector));
    line("info.tables.push_back(std::move(t)); }");
  }
  for (const RegisterInfo& one : info.registers) {
    line(fmt::format("info.registers.push_back({{{}, {}, {}}});", quoted(one.name), one.width, one.size));
  }
  for (const CounterInfo& one : info.counters) {
    line(fmt::format("info.counters.push_back({{{}, CounterKind({}), {}, {}}});", quoted(one.name),
                     static_cast<int>(one.kind), one.size, one.table));
  }
  for (const std::string& error : info.errors) {
    line(fmt::format("info.errors.push_back({});", quoted(error)));
  }
  line("return info;\n}");
}

std::string Emitter::place(int which) const {
  const SlotAt& at_slot = slots_[static_cast<std::size_t>(which)];
  const bool is_wide = at_slot.array == 'w';
  return fmt::format("{{offsetof(Frame, {}) + {}, {}, {}}}", at_slot.array, at_slot.index * (is_wide ? 16 : 8), is_wide,
                     program_.slot_widths[static_cast<std::size_t>(which)]);
}

void Emitter::layout_ranges(const char* name, int begin, int end) {
  ranges(begin, end - begin, [&](int offset, int number, bool is_wide) {
    const SlotAt& first = slots_[static_cast<std::size_t>(begin + offset)];
    const int bytes = is_wide ? 16 : 8;
    line(fmt::format("layout.{}.emplace_back(offsetof(Frame, {}) + {}, {});", name, first.array, first.index * bytes,
                     number * bytes));
  });
}

void Emitter::tail() {
  line(
      "\nLayout make_layout() {\nLayout layout;\nlayout.frame_bytes = sizeof(Frame);\nlayout.kept_bytes = "
      "offsetof(Frame, x);");
  layout_ranges("headers", 0, program_.metadata_slot);
  layout_ranges("metadata", program_.metadata_slot, program_.persistent_slots);
  for (std::size_t i = 0; i < kMetadataFields; ++i) {
    line(fmt::format("layout.fields[{}] = {};", i, place(program_.metadata[i])));
  }
  for (const ir::FieldListEntry& entry : program_.field_lists) {
    std::string lists;
    for (const unsigned one : entry.lists) {
      lists += fmt::format("{}{}", lists.empty() ? "" : ", ", one);
    }
    line(fmt::format("layout.lists.push_back({{{}, {{{}}}}});", place(entry.slot), lists));
  }
  line("return layout;\n}");
  const std::string error_slot = slot(program_.metadata[static_cast<std::size_t>(MetadataField::parser_error)]);
  const std::string checksum_slot = slot(program_.metadata[static_cast<std::size_t>(MetadataField::checksum_error)]);
  line(
      "\nclass Compiled : public CompiledProgram {\npublic:\nCompiled() : CompiledProgram(make_info(), "
      "make_layout()) {}");
  line("void parse(State& state, std::byte* frame, PacketContext& packet) const override {");
  line("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet);");
  line(fmt::format("if (p{}(f, e) == on) {{ e.error = no_error; }}\n{} = e.error; packet.parsed_bytes = e.cursor; }}",
                   program_.parser, error_slot));
  line("void ingress(State& state, std::byte* frame, PacketContext& packet) const override {");
  line("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet);");
  line(
      fmt::format("r{}(f, e); {} = e.checksum_error; r{}(f, e); }}", program_.verify, checksum_slot, program_.ingress));
  line("void egress(State& state, std::byte* frame, PacketContext& packet) const override {");
  line(
      fmt::format("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet); r{}(f, e); }}", program_.egress));
  line(
      "std::size_t deparse(State& state, std::byte* frame, PacketContext& packet, std::span<std::byte> out) const "
      "override {");
  line(
      fmt::format("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet); e.out = out; r{}(f, e); r{}(f, "
                  "e); return e.written; }}",
                  program_.compute, program_.deparser));
  line("};\n}  // namespace " + function_ + "_program\n}  // namespace\n}  // namespace sidelatch::p4::compiled");
  line("namespace sidelatch::p4::programs {");
  line(fmt::format(
      "std::shared_ptr<const Program> {0}() {{ return std::make_shared<compiled::{0}_program::Compiled>(); }}",
      function_));
  line("}  // namespace sidelatch::p4::programs");
}

}  // namespace sidelatch::p4
