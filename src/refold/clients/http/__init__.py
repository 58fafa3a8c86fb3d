"""What clients share over HTTP: requests, streams, deadlines and failures."""
