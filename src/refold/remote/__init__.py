"""Sessions for other programs, over JSON-RPC and as tools of an MCP server."""
