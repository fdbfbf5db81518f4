# find_package(Rondo) gives the target Rondo::rondo, for C and C++.
get_filename_component(_rondo_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Rondo::rondo)
  add_library(Rondo::rondo SHARED IMPORTED)
  set_target_properties(Rondo::rondo PROPERTIES
    IMPORTED_LOCATION "${_rondo_prefix}/lib/librondo.so.0"
    IMPORTED_SONAME "librondo.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_rondo_prefix}/include")
endif()
unset(_rondo_prefix)
