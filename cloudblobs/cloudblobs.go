package cloudblobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // the driver of s3:// URLs
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"github.com/flowgen/flowgen/runtime/codec"
)

// Store is a [codec.BlobStore] in a bucket. Its methods may be called concurrently.
type Store struct {
	bucket *blob.Bucket
	limits limits
}

var _ codec.BlobStore = (*Store)(nil)

// New returns a store in a bucket. [Store.Close] closes the bucket.
func New(bucket *blob.Bucket) *Store {
	return &Store{bucket: bucket, limits: limits{attempts: 3, pause: 200 * time.Millisecond, patience: 30 * time.Second, rate: 256 << 10}}
}

// Open opens the bucket of a URL and returns a store in it. It accepts s3:// URLs and those of other
// drivers that the program imports. It returns an [Error] if the bucket does not exist or cannot be
// listed.
func Open(ctx context.Context, bucketURL string) (*Store, error) {
	bucket, err := blob.OpenBucket(ctx, bucketURL)
	if err != nil {
		return nil, &Error{Op: "open", Reason: Rejected, Err: err}
	}
	s := New(bucket)
	if err := s.try(ctx, "open", "", 0, s.exists); err != nil {
		_ = bucket.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the bucket.
func (s *Store) Close() error {
	return s.bucket.Close()
}

// exists returns an error if the bucket does not exist or cannot be listed.
func (s *Store) exists(ctx context.Context, _ *deadline) error {
	found, err := s.bucket.IsAccessible(ctx)
	if err == nil && !found {
		return errNoBucket
	}
	return err
}

// Put stores a blob. An object of the same name is replaced: it has the same content, or it is
// damaged.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := codec.CheckBlobName(name); err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	err := s.try(ctx, "put", name, int64(len(data)), func(ctx context.Context, _ *deadline) error {
		return s.bucket.Upload(ctx, name, bytes.NewReader(data), &blob.WriterOptions{ContentType: "application/octet-stream"})
	})
	if isNotFound(err) {
		return &Error{Op: "put", Name: name, Reason: NoBucket, Err: err}
	}
	return err
}

// Get returns a blob. If there is none, the error matches [codec.ErrBlobNotFound].
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := codec.CheckBlobName(name); err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	var data []byte
	err := s.try(ctx, "get", name, 0, func(ctx context.Context, d *deadline) error {
		r, err := s.bucket.NewReader(ctx, name, nil)
		if err != nil {
			return err
		}
		defer r.Close()
		d.extend(r.Size())
		data, err = io.ReadAll(r)
		return err
	})
	if isNotFound(err) {
		return nil, s.missing(ctx, "get", name, fmt.Errorf("get blob %s: %w", name, codec.ErrBlobNotFound))
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// deletes is the number of blobs that are deleted at a time.
const deletes = 8

// Delete removes blobs. It ignores names that do not exist, and stops at the first failure.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := codec.CheckBlobName(name); err != nil {
			return fmt.Errorf("delete blobs: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete blobs: %w", err)
	}
	var absent atomic.Bool
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(deletes)
	for _, name := range names {
		group.Go(func() error {
			err := s.try(each, "delete", name, 0, func(ctx context.Context, _ *deadline) error {
				return s.bucket.Delete(ctx, name)
			})
			if isNotFound(err) {
				absent.Store(true)
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if absent.Load() {
		return s.missing(ctx, "delete", "", nil)
	}
	return nil
}

// missing returns answer for a name that was not found, or an error if the bucket does not exist:
// drivers report the same code for both. A program that may not list the bucket cannot find out.
func (s *Store) missing(ctx context.Context, op, name string, answer error) error {
	err := s.try(ctx, op, name, 0, s.exists)
	var failure *Error
	if err == nil || errors.As(err, &failure) && failure.Reason == Denied {
		return answer
	}
	return err
}

func isNotFound(err error) bool {
	var failure *Error
	return err != nil && !errors.As(err, &failure) && gcerrors.Code(err) == gcerrors.NotFound
}
