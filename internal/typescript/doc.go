// Package typescript writes types of TypeScript for the client in clients/ts: those of the document of the HTTP API, and those of the workflows
// of packages, from their manifests. What it writes is sorted, so that the same document gives the same text.
package typescript
