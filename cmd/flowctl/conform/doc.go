// Package conform contains only a test. It validates all HTTP traffic of the suite of services
// against the OpenAPI document of the API. The test is in this module so that users do not depend
// on the validator.
package conform
