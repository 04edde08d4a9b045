// The rules on includes, as a function over file texts.
//
//   for (const std::string& violation : include_violations(files)) ...   // "sync/latch.cpp:7: <...>: why not"
//
// Arrows point down only:
//   tools -> bench -> checker -> structures -> flows -> sync, switchsync;  switchsync -> p4
//   sync, switchsync -> fabric: the interface alone, so that an algorithm cannot tell in which world it runs
//   checker -> fabric/sim, fabric/verbs, softnic: from there up a world may be chosen
//   fabric/sim -> fabric/model -> fabric;  fabric/verbs -> fabric
//   softnic -> softnic/nic, roce;  softnic/nic -> roce, fabric/model;  p4 -> roce
//   fabric, roce -> common
// bench stands above checker, because it reads the registry of schemes there.
//
// A folder is used through its public headers, <sidelatch/FOLDER/...>. A quoted include names a private header of the
// same folder or of one around it, of common, or of a room right below that has no public headers (roce, softnic/nic).
// A public header includes public headers only, and so does an example. Each folder of include/sidelatch mirrors a
// folder of sources. bench/micro may name private headers of any folder; tests/ is free.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sidelatch::layering {

struct SourceFile {
  std::string path;  // from the root of the source tree, with '/'
  std::string text;
};

/// One message per broken rule, each starting with PATH:LINE.
std::vector<std::string> include_violations(std::span<const SourceFile> files);

}  // namespace sidelatch::layering
