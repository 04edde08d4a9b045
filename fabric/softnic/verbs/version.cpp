// What a process asks for to find out whether this library is preloaded (softnic::is_preloaded()).
#include "export.h"

#include <sidelatch/version.h>

SIDELATCH_VERBS_EXPORT const char* sidelatch_softnic_version() { return sidelatch::kVersion.data(); }
