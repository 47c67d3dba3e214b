-- micros returns the time in microseconds. If the caller passes a time, it returns this time. If
-- the caller passes '0', it returns the time of the server, which is constant during a script.
local server_time
local function micros(at)
  if at ~= '0' then
    return at * 1000
  end
  if not server_time then
    local t = redis.call('TIME')
    server_time = {t[1] * 1000000 + t[2], t[1] .. string.sub('000000' .. t[2], -6, -4)}
  end
  return server_time[1]
end

-- clock returns the time in milliseconds, as a number and as text. Commands use the text, because
-- the server takes long to format a number.
local function clock(at)
  if at == '0' then
    micros(at)
    at = server_time[2]
  end
  return tonumber(at), at
end
