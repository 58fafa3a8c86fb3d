"""What was said: message values, tool pairs, repair, validity, wire rules, speakers, text cutting."""
