"""The command line. Every command is a module of its own, loaded when it is asked for."""
