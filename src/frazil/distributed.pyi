from frazil.repository.forks import extract_session as extract_session
from frazil.repository.forks import merge_sessions as merge_sessions
