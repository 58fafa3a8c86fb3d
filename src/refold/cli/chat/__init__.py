"""The terminal face of `refold chat`: a line editor where there is a terminal, plain lines elsewhere."""
