module github.com/flowgen/flowgen/lambdaflow

go 1.26.0

require (
	github.com/aws/aws-lambda-go v1.55.1
	github.com/google/go-cmp v0.7.0
)
