// Package conform has no code of its own. Its test holds all that the suite of services says and hears over HTTP to
// the OpenAPI document of the API. It is in this module so that the validator is in no user's module graph.
package conform
