// The exported functions of this library: those of libibverbs, under their names.
//
// Everything else is hidden (-fvisibility=hidden). The functions have no symbol version: a preloaded library without
// versions satisfies references of any version (ld.so(8), LD_PRELOAD; glibc, elf/dl-lookup.c, check_match()).
#pragma once

#define SIDELATCH_VERBS_EXPORT extern "C" __attribute__((visibility("default")))
