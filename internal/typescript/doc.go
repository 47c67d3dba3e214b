// Package typescript writes types of TypeScript for the client in clients/ts: those of the document of the HTTP API, and those of the workflows
// of packages, from their manifests. What it writes is sorted, so that the same document gives the same text.
// Both have the same writer: programs get the types of their workflows from the flowgen command, without Node.
package typescript
