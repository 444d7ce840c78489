"""What tests of several folders share: real servers and what the machine offers."""
