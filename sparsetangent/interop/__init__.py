"""The neighbours, one file each: ``import sparsetangent.interop.torch`` and so on. Nothing is imported before it is asked for."""
