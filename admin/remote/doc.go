// Package remote is a client of the HTTP API of package admin/api. Its [Service] has the operations of an
// [admin.Service], and returns the answers and problems of that of the server:
//
//	service, err := remote.New("https://flows.example.com", remote.Config{Token: token})
//	run, err := service.Run(ctx, "id:order-4711")
//
// It follows runs through outages: from the last event that it has got.
package remote
