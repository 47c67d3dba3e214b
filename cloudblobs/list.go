package cloudblobs

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"

	"github.com/flowgen/flowgen/runtime/codec"
)

// List returns at most limit blobs whose names begin with prefix and follow after, sorted by name.
// It omits objects whose names are not those of blobs. Services other than S3 read the names up to
// after, too.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]codec.Blob, error) {
	var found []codec.Blob
	opts := &blob.ListOptions{Prefix: prefix, BeforeList: startAfter(prefix, after)}
	last := after
	for token := blob.FirstPageToken; len(token) > 0 && len(found) < limit; {
		var page []*blob.ListObject
		var next []byte
		err := s.try(ctx, "list", prefix, 0, func(ctx context.Context, _ *deadline) (err error) {
			page, next, err = s.bucket.ListPage(ctx, token, min(limit, 1000), opts)
			return err
		})
		if isNotFound(err) {
			return nil, &Error{Op: "list", Name: prefix, Reason: NoBucket, Err: err}
		}
		if err != nil {
			return nil, err
		}
		for _, object := range page {
			if object.Key <= after || codec.CheckBlobName(object.Key) != nil {
				continue
			}
			if object.Key <= last {
				return nil, &Error{Op: "list", Name: prefix, Reason: Unsorted, Err: fmt.Errorf("%s follows %s", object.Key, last)}
			}
			last = object.Key
			if found = append(found, codec.Blob{Name: object.Key, Size: object.Size, Time: object.ModTime}); len(found) == limit {
				break
			}
		}
		token = next
	}
	return found, nil
}

// startAfter returns a function that lets S3 begin a list behind a name.
func startAfter(prefix, after string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var in *s3.ListObjectsV2Input
		if after == "" || !as(&in) || in.ContinuationToken != nil || !strings.HasPrefix(after, prefix) {
			return nil
		}
		var whole string // the prefix within the bucket, which may have one of its own
		if in.Prefix != nil {
			whole = *in.Prefix
		}
		from := strings.TrimSuffix(whole, prefix) + after
		in.StartAfter = &from
		return nil
	}
}
