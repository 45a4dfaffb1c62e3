//! The guest side: first process, modules, namespaces, services, samplers, request loop.
