// Package remote is a client of the HTTP API of package admin/api. Its [Service] has the operations
// of an [admin.Service], and returns the results and problems of the server:
//
//	service, err := remote.New("https://flows.example.com", remote.Config{Token: token})
//	run, err := service.Run(ctx, "id:order-4711")
//
// If the connection fails while it follows a run, it reconnects and continues after the last event
// that it received.
package remote
