// Package conform contains only a test, which validates all HTTP traffic of the suite of services
// against the OpenAPI document of the API. It is in this module so that the validator is not a
// dependency of users.
package conform
