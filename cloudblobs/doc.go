// Package cloudblobs stores offloaded payloads in buckets of Amazon S3, of services that are
// compatible with S3, and of all other services that have a driver of gocloud.dev/blob.
//
//	blobs, err := cloudblobs.Open(ctx, "s3://payloads?region=eu-central-1")
//	if err != nil {
//		return err
//	}
//	defer blobs.Close()
//	c, err := codec.New(codec.Config{Keys: keys, Blobs: blobs})
//
// The URL of a service that is compatible with S3 has an endpoint and mostly the path style:
// s3://payloads?endpoint=https://minio.example.com&use_path_style=true&region=us-east-1. The
// parameter prefix=NAME/ shares a bucket with other programs. Package gocloud.dev/blob/s3blob
// describes all parameters. The credentials come from the environment, as for other programs of AWS.
//
// A program needs the permissions s3:PutObject, s3:GetObject, s3:DeleteObject, s3:ListBucket and
// s3:AbortMultipartUpload. The bucket must have neither a lifecycle rule that deletes objects nor
// versions that are kept forever, and it must not be a directory bucket, which does not sort its
// lists. Payloads above 16 MiB are uploaded in parts, which become visible together. A lifecycle rule
// AbortIncompleteMultipartUpload of one day removes the parts of uploads that were interrupted.
//
// # Failures
//
// A call that fails for a reason that may pass is tried three times. An attempt without an answer
// ends after 30 seconds, and one that transfers a payload has another second for each 256 KiB. The
// errors of calls are an [Error], whose Reason is one of the constants of this package; an error of
// the caller's context; or [codec.ErrBlobNotFound].
//
// # Tests
//
// The tests of this package use a bucket in memory, and an HTTP server that gives wrong, late and
// incomplete answers. Those of the module cloudblobs/servers use a real server, versitygw with its
// file backend, which they start and kill.
package cloudblobs
