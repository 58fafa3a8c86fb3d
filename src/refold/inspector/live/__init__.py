"""What happens meanwhile: requests of the gateway, and events that tell pages to look again."""
