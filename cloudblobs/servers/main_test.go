package servers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"github.com/flowgen/flowgen/cloudblobs"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

// A test starts its own binary as the server or as a client, which it can kill. role is the variable
// that selects one of them.
const role = "FLOWGEN_BLOBS_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "server":
		go exitWithParent()
		err = serve(os.Getenv("DIR"), os.Getenv("ADDR"), os.Getenv("STORAGE"))
	case "client":
		go exitWithParent()
		err = put(os.Getenv("BUCKET"), os.Getenv("SIZE"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// exitWithParent ends the process when the test, which holds the other end of stdin, has ended.
func exitWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

// Accounts of the server. The owner owns all buckets.
var (
	owner = auth.Account{Access: "flowgen", Secret: "flowgen-secret", Role: auth.RoleAdmin}
	guest = auth.Account{Access: "guest", Secret: "guest-secret", Role: auth.RoleUser}
)

// mount mounts a file system of a size on a directory, for the process only. It is nil on systems
// other than Linux, which do not have the test that needs it.
var mount func(dir, size string) error

// serve is the server: versitygw, which keeps objects as files in a directory. If storage is not
// empty, it is the size of the file system that has this directory.
func serve(dir, addr, storage string) error {
	objects, attributes, accounts := filepath.Join(dir, "objects"), filepath.Join(dir, "attributes"), filepath.Join(dir, "accounts")
	for _, d := range []string{objects, attributes, accounts} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if storage != "" {
		if err := mount(objects, storage); err != nil {
			return err
		}
	}
	stored, err := meta.NewSideCar(attributes)
	if err != nil {
		return err
	}
	files, err := posix.New(objects, stored, posix.PosixOpts{SideCarDir: attributes, Concurrency: 100})
	if err != nil {
		return err
	}
	iam, err := auth.New(&auth.Opts{RootAccount: owner, Dir: accounts, CacheDisable: true})
	if err != nil {
		return err
	}
	if _, err := iam.GetUserAccount(guest.Access); err != nil {
		if err := iam.CreateAccount(guest); err != nil {
			return err
		}
	}
	server, err := s3api.New(files, middlewares.RootUserConfig{Access: owner.Access, Secret: owner.Secret}, "us-east-1", iam, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithOnListen(func() { fmt.Println("ready") }), s3api.WithConcurrencyLimiter(1000, 1000), s3api.WithMpMaxParts(10_000))
	if err != nil {
		return err
	}
	return server.ServeMultiPort([]string{addr})
}

// put is the client: it stores data of a size in a bucket.
func put(bucket, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	store, err := cloudblobs.Open(context.Background(), bucket)
	if err != nil {
		return err
	}
	data := codectest.Data(1, n)
	return store.Put(context.Background(), codectest.Name("chain", data), data)
}

// freeAddr returns an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
