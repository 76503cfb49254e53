# SPDX-License-Identifier: LGPL-2.1-or-later
"""What plug-ins of vLLM's sleep mode stand on: the abstract class and the registry, by their names there."""

import abc
import importlib


class SleepModeBackend(abc.ABC):
    def __init__(self):
        self._state = "RUNNING"

    @abc.abstractmethod
    def suspend(self, level=1):
        raise NotImplementedError

    @abc.abstractmethod
    def resume(self, tags=None):
        raise NotImplementedError

    def state(self):
        return self._state

    def discard(self, tags):
        raise RuntimeError("no selective discard")

    @classmethod
    def is_supported(cls):
        return True

    @classmethod
    def preserves_communicators(cls):
        return False

    @classmethod
    def preserves_compiled_artifacts(cls):
        return False

    @classmethod
    def preserves_graphs_with_communicators(cls):
        return False

    @classmethod
    def supports_durable_storage(cls):
        return False


class SleepModeBackendFactory:
    known = {}

    @classmethod
    def register_backend(cls, name, module_path, class_name):
        if name in cls.known:
            raise ValueError(f"{name} is registered already")
        cls.known[name] = (module_path, class_name)

    @classmethod
    def create_backend(cls, name):
        module_path, class_name = cls.known[name]
        kind = getattr(importlib.import_module(module_path), class_name)
        if not kind.is_supported():
            raise ValueError(f"{name} is not supported")
        return kind()
