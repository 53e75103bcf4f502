# xxHash, of which Lockstep uses the header alone, compiled into its own sources: whoever links Lockstep needs nothing of
# it. Defines XXHASH::XXHASH.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHASH REQUIRED_VARS XXHASH_INCLUDE_DIR)
mark_as_advanced(XXHASH_INCLUDE_DIR)
if(XXHASH_FOUND AND NOT TARGET XXHASH::XXHASH)
  add_library(XXHASH::XXHASH INTERFACE IMPORTED)
  set_target_properties(XXHASH::XXHASH PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${XXHASH_INCLUDE_DIR})
endif()
