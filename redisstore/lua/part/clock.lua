-- clock returns the time in milliseconds, as a number and as text: what the caller's
-- own clock shows, or the time of the server if the caller brings none ('0'). Commands get the
-- text: the server takes long to format a number. A script has one time.
local server_time
local function clock(at)
  if at == '0' then
    if not server_time then
      local t = redis.call('TIME')
      server_time = t[1] .. string.sub('000000' .. t[2], -6, -4)
    end
    at = server_time
  end
  return tonumber(at), at
end
