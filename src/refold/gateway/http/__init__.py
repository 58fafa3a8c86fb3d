"""HTTP on both sides: who comes in, where a request goes, which bytes and headers travel."""
