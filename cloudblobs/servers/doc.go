// Package servers tests package cloudblobs with a real server that is compatible with S3: versitygw
// with its file backend. The tests start it as a process of their own on 127.0.0.1, and kill it.
package servers
