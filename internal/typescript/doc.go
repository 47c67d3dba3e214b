// Package typescript writes the document of the HTTP API as types of TypeScript, for the client in clients/ts. What it
// writes is sorted, so that the same document gives the same text.
package typescript
