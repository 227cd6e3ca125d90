"""The reference solutions: one module a chapter, plain functions over arrays."""
