# find_package(Rondo) gives the target Rondo::rondo, for C and C++. This file is in LIB/cmake/Rondo. LIB is the folder of the
# library: PREFIX/lib, or PREFIX/lib/ARCHITECTURE.
get_filename_component(_rondo_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_rondo_include "${_rondo_lib}/../include" ABSOLUTE)
if(NOT EXISTS "${_rondo_include}/rondo.h")
  get_filename_component(_rondo_include "${_rondo_lib}/../../include" ABSOLUTE)
endif()
if(NOT TARGET Rondo::rondo)
  add_library(Rondo::rondo SHARED IMPORTED)
  set_target_properties(Rondo::rondo PROPERTIES
    IMPORTED_LOCATION "${_rondo_lib}/librondo.so.0"
    IMPORTED_SONAME "librondo.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_rondo_include}")
endif()
unset(_rondo_lib)
unset(_rondo_include)
