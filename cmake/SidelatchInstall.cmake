# cmake --install: headers, both libraries, the program, the profiles, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

# Before anything is copied: half an installation would be worse than none.
set(installed_targets sidelatch_static sidelatch_shared sidelatch_verbs sidelatch_p4c)
if(TARGET sidelatch)
    list(APPEND installed_targets sidelatch)
endif()
foreach(target IN LISTS installed_targets)
    install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
        message(FATAL_ERROR \"$<TARGET_FILE:${target}> is not built: run cmake --build ${PROJECT_BINARY_DIR} first\")
    endif()"
    )
endforeach()

install(
    TARGETS sidelatch_static sidelatch_shared
    EXPORT sidelatchTargets
    FILE_SET HEADERS
)
install(TARGETS sidelatch_verbs LIBRARY)
install(TARGETS sidelatch_p4c EXPORT sidelatchTargets)
if(TARGET sidelatch)
    install(TARGETS sidelatch)
endif()
install(FILES ${SIDELATCH_PROFILES} DESTINATION "${CMAKE_INSTALL_DATADIR}/sidelatch/profiles")
file(GLOB SIDELATCH_P4_PROGRAMS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/p4/*.p4" "${PROJECT_SOURCE_DIR}/p4/*.json")
set(SIDELATCH_P4_FOLDER "${CMAKE_INSTALL_DATADIR}/sidelatch/p4")
install(FILES ${SIDELATCH_P4_PROGRAMS} DESTINATION "${SIDELATCH_P4_FOLDER}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/p4/include" DESTINATION "${SIDELATCH_P4_FOLDER}")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sidelatch")
install(EXPORT sidelatchTargets NAMESPACE sidelatch:: DESTINATION "${package_dir}")
configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/sidelatchConfig.cmake.in" "${PROJECT_BINARY_DIR}/sidelatchConfig.cmake"
    INSTALL_DESTINATION "${package_dir}"
    PATH_VARS SIDELATCH_P4_FOLDER
)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sidelatchConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/sidelatchConfig.cmake" "${PROJECT_BINARY_DIR}/sidelatchConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/SidelatchAddP4.cmake"
        DESTINATION "${package_dir}"
)

# Relative, so that an installed tree can be moved, and --prefix may differ from the one configured.
file(RELATIVE_PATH SIDELATCH_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${PROJECT_SOURCE_DIR}/cmake/sidelatch.pc.in" "${PROJECT_BINARY_DIR}/sidelatch.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sidelatch.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
