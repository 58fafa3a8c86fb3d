"""Sessions for other programs: the same abilities over JSON-RPC and as tools of an MCP server."""
