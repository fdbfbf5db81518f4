"""Targets that need <cuda.h>: where there is no toolkit, libraries are empty, binaries are nothing, and tests say that they
are skipped."""

load("@cuda//:toolkit.bzl", "CUDA_FOUND")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("//tools/rules:rondo.bzl", "rondo_library")

def cuda_library(name, **attributes):
    if CUDA_FOUND:
        rondo_library(name = name, **attributes)
        return
    kept = {key: attributes[key] for key in ["testonly", "visibility"] if key in attributes}
    cc_library(name = name, **kept)

def cuda_test(name, **attributes):
    if CUDA_FOUND:
        cc_test(name = name, **attributes)
        return
    kept = {key: attributes[key] for key in ["size", "tags"] if key in attributes}
    cc_test(name = name, srcs = ["//third_party/cuda:no_toolkit_test.cc"], **kept)

def cuda_binary(name, **attributes):
    if CUDA_FOUND:
        cc_binary(name = name, **attributes)
        return
    kept = {key: attributes[key] for key in ["testonly", "visibility"] if key in attributes}
    native.filegroup(name = name, **kept)
