"""Messages as values, and their tool pairs, repair, validity, wire rules, speakers, text cutting."""
