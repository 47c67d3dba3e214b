package servers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flowgen/flowgen/cloudblobs"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

func TestOPS11_ABucketOfARealServerKeepsTheContractOfBlobStores(t *testing.T) {
	s := start(t)
	as(t, owner.Access, owner.Secret)
	codectest.Conformance(t, func(t *testing.T) codec.BlobStore {
		store, err := cloudblobs.Open(t.Context(), s.url()+"&prefix=flowgen/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	})
}

// sizes are uploaded by one request and in parts.
var sizes = []int{1 << 20, 20 << 20}

// cuts returns the numbers of bytes of requests after which a Put of a size is interrupted. The last
// bytes of the payload are missing in all of them, since the requests have headers.
func cuts(size int) []int64 {
	n := int64(size)
	return depth.Sample([]int64{n / 2, 100, n, 2000, n - 1000, n * 9 / 10}, 2)
}

// wantNothing fails the test if anything of a blob is visible.
func wantNothing(t *testing.T, store *cloudblobs.Store, name string) {
	t.Helper()
	if got, err := store.Get(t.Context(), name); !errors.Is(err, codec.ErrBlobNotFound) {
		t.Errorf("Get after an interrupted Put returns %d bytes and error %v, want ErrBlobNotFound", len(got), err)
	}
	if page, err := store.List(t.Context(), "", "", 10); err != nil || len(page) != 0 {
		t.Errorf("List after an interrupted Put returns %v and error %v, want none", page, err)
	}
}

// wantStored stores a blob and reads it.
func wantStored(t *testing.T, store *cloudblobs.Store, name string, data []byte) {
	t.Helper()
	if err := store.Put(t.Context(), name, data); err != nil {
		t.Errorf("Put after an interruption: %v", err)
	}
	if got, err := store.Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Get returns %d bytes and error %v, want %d bytes", len(got), err, len(data))
	}
	if err := store.Delete(t.Context(), name); err != nil {
		t.Error(err)
	}
}

func TestOPS11_AServerKilledDuringPutKeepsNothing(t *testing.T) {
	s := start(t)
	store := s.open(t)
	for i, size := range sizes {
		for _, cut := range cuts(size) {
			name, data := payload(byte(i), size)
			ctx, cancel := context.WithCancel(t.Context())
			s.after(cut, func() {
				s.process.kill()
				cancel()
			})
			if err := store.Put(ctx, name, data); !errors.Is(err, context.Canceled) {
				t.Errorf("Put of %d bytes, interrupted after %d, returns %v", size, cut, err)
			}
			s.run(t)
			wantNothing(t, store, name)
			wantStored(t, store, name, data)
		}
	}
}

func TestOPS11_PutSucceedsIfTheServerIsRestartedMeanwhile(t *testing.T) {
	s := start(t)
	store := s.open(t)
	for i, size := range sizes {
		name, data := payload(byte(i), size)
		s.after(int64(size/2), func() {
			s.process.kill()
			s.run(t)
		})
		wantStored(t, store, name, data)
	}
}

func TestOPS11_AClientKilledDuringPutStoresNothing(t *testing.T) {
	s := start(t)
	store := s.open(t)
	for _, size := range sizes {
		for _, cut := range cuts(size) {
			name, data := payload(1, size)
			clients := make(chan *process, 1)
			s.after(cut+listing, func() { (<-clients).kill() })
			client := run(t, []string{role + "=client", "BUCKET=" + s.url(), "SIZE=" + strconv.Itoa(size)}, nil)
			clients <- client
			<-client.ended
			if status := client.cmd.ProcessState.String(); status != "signal: killed" {
				t.Fatalf("the client of %d bytes, to be killed after %d, ends with %s: %s", size, cut, status, client.log.String())
			}
			wantNothing(t, store, name)
			wantStored(t, store, name, data)
		}
	}
}

// listing is less than the bytes of the request that Open sends.
const listing = 300

func TestOPS11_MissingPermissionsAreDenied(t *testing.T) {
	s := start(t)
	name, data := payload(1, 1000)
	if err := s.open(t).Put(t.Context(), name, data); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ access, secret string }{
		{"unknown", owner.Secret}, {owner.Access, "wrong"}, {guest.Access, guest.Secret},
	} {
		as(t, c.access, c.secret)
		_, err := cloudblobs.Open(t.Context(), s.url())
		wantReason(t, "Open as "+c.access+":"+c.secret, err, cloudblobs.Denied)
	}

	s.permit(t, "ListBucket", "payloads")
	as(t, guest.Access, guest.Secret)
	store, err := cloudblobs.Open(t.Context(), s.url())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Get(t.Context(), name)
	wantReason(t, "Get", err, cloudblobs.Denied)
	wantReason(t, "Put", store.Put(t.Context(), name, data), cloudblobs.Denied)
	wantReason(t, "Delete", store.Delete(t.Context(), name), cloudblobs.Denied)

	s.permit(t, "GetObject", "payloads/*")
	if got, err := store.Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Get with permission returns %d bytes and error %v", len(got), err)
	}
	_, err = store.List(t.Context(), "", "", 10)
	wantReason(t, "List", err, cloudblobs.Denied)
	wantReason(t, "Put", store.Put(t.Context(), name, data), cloudblobs.Denied)
	wantReason(t, "Delete", store.Delete(t.Context(), name), cloudblobs.Denied)
	if got, err := s.open(t).Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after denied calls Get returns %d bytes and error %v", len(got), err)
	}
}

// permit gives the guest one permission instead of those it has.
func (s *server) permit(t *testing.T, action, resource string) {
	t.Helper()
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":[%q]},"Action":["s3:%s"],"Resource":["arn:aws:s3:::%s"]}]}`,
		guest.Access, action, resource)
	if _, err := s.client().PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("payloads"), Policy: &policy}); err != nil {
		t.Fatal(err)
	}
}

func wantReason(t *testing.T, call string, err error, want cloudblobs.Reason) {
	t.Helper()
	var failure *cloudblobs.Error
	if !errors.As(err, &failure) || failure.Reason != want {
		t.Errorf("%s returns %v, want reason %q", call, err, want)
	}
}

func TestOPS11_ABucketThatDoesNotExistIsReported(t *testing.T) {
	s := start(t)
	store := s.open(t)
	if _, err := s.client().DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("payloads")}); err != nil {
		t.Fatal(err)
	}
	name, data := payload(1, 1000)
	_, openErr := cloudblobs.Open(t.Context(), s.url())
	_, getErr := store.Get(t.Context(), name)
	_, listErr := store.List(t.Context(), "", "", 10)
	wantReason(t, "Open", openErr, cloudblobs.NoBucket)
	wantReason(t, "Get", getErr, cloudblobs.NoBucket)
	wantReason(t, "List", listErr, cloudblobs.NoBucket)
	wantReason(t, "Put", store.Put(t.Context(), name, data), cloudblobs.NoBucket)
	wantReason(t, "Delete", store.Delete(t.Context(), name), cloudblobs.NoBucket)
}
