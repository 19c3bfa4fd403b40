"""How a client proves who it is: the SASL mechanisms PLAIN and SCRAM, as both sides compute them, and JAAS texts.

Nothing here knows of connections or requests: a token goes in, a token comes out. Passwords are in the tokens and in
what is handed in, and nowhere else: no error, and no ``repr``, shows one.
"""
